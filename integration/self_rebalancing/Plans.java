// Prints what Kafka 0.8.2.2's own RangeAssignor plans for members of groups in a ZooKeeper.
//
//   java -cp JARS Plans.java HOSTS < lines of "group consumer", each answered by one line:
//   "topic partition thread" triples, separated by ";", or "! why" where it fails.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import kafka.common.TopicAndPartition;
import kafka.consumer.AssignmentContext;
import kafka.consumer.ConsumerThreadId;
import kafka.consumer.RangeAssignor;
import kafka.utils.ZKStringSerializer$;
import org.I0Itec.zkclient.ZkClient;
import scala.Tuple2;
import scala.collection.Iterator;

public class Plans {
    public static void main(String[] arguments) throws Exception {
        org.apache.log4j.BasicConfigurator.configure(new org.apache.log4j.varia.NullAppender());
        ZkClient client = new ZkClient(arguments[0], 30000, 30000, ZKStringSerializer$.MODULE$);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] asked = line.split(" ");
            System.out.println(answer(client, asked[0], asked[1]));
        }
        client.close();
    }

    static String answer(ZkClient client, String group, String consumer) {
        try {
            AssignmentContext context = new AssignmentContext(group, consumer, true, client);
            Iterator<Tuple2<TopicAndPartition, ConsumerThreadId>> plan =
                new RangeAssignor().assign(context).iterator();
            StringBuilder told = new StringBuilder();
            while (plan.hasNext()) {
                Tuple2<TopicAndPartition, ConsumerThreadId> each = plan.next();
                told.append(each._1().topic()).append(' ').append(each._1().partition());
                told.append(' ').append(each._2()).append(';');
            }
            return told.toString();
        } catch (Throwable problem) {
            return "! " + problem.toString().replace('\n', ' ');
        }
    }
}
